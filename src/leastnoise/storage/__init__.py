"""All that is written to disk and read back: one way to write a file, one to write a folder, one to read either.

- `files`: new files and folders appear whole, synced, under their name, or not at all; `appended` grows by lines.
- `archive`: arrays in a file (.npz), with limits on what it may unpack to; plans and collectors are such files.
- `records`: folders and files with a sealed header in JSON, which holds the checksums of everything else.
- `formats`: the name and version of a kind of file, and whatever can be wrong with one, reported in one line.

Kinds of releases, plans and estimates give a header and arrays and get them back. No other module opens a file for
writing, renames or syncs (tests/storage/test_only_here.py).
"""
