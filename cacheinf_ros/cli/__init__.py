"""The ``cacheinf`` command."""
