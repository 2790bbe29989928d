"""How a run is kept on disk, and read again.

    folder   run folders: where they are made, their names, run.json
    flush    what the recorder hands over: everything since the last time
    writer   ShardWriter: one process' records, one batch a flush
    blobs    array bytes, beside the records
    reader   RunReader: a run folder with its shards, also while it is being written
    shard    ShardReader: one shard, with its columns and values
    format   the format's own page: layout, version, history

`folder` and `format` import no library; the other modules need numpy, pyarrow and xxhash and are imported on use.
"""
