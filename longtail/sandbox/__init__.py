"""The sandbox: an invented world, and a server that answers for it on 127.0.0.1 as Wikimedia does, also with its dumps.

Stages reach it by its address alone. `tools/reference_models` trains the models that have read this world.
"""
