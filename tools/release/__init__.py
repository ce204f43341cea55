"""Makes the files of a release: `make wheels` and `make release`. `python -m release --help`, with `tools` in PYTHONPATH."""
