"""The database itself: engine, tables, migrations, blobs."""
