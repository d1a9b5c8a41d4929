"""One module for each kind of retriever: its record, `RETRIEVER`, its settings and its class, found by listing."""
