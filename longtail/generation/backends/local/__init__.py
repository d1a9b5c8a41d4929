"""Generation by transformers on this machine.

`loading` loads and checks models. Each is run in one of three ways: `packed` (without padding; `attention` and `passes`
are its parts), `cached` (padded batches) or `encoder_decoder`. `decoding` and `scoring` walk the states of a
batch, `rules` follows a checkpoint's own settings, and `batches` plans device batches and accounts for them. Nothing
here knows which rows it computes (`generation.engine`), or where weights come from (`models`).
"""
