"""How a run is kept on disk, and read again.

    folder      run folders: where they are made, what they are called, run.json
    format      the format's own page: layout, schema, version, history
    flush       what the recorder hands over: everything since the last time
    writer      ShardWriter: one process' records, one batch a flush
      encode, arrays, blobs     a flush as Arrow columns, and the bytes of arrays beside them
      framing                   sealing a message with its checksum, finding the whole ones again
    reader      RunReader: a run folder, also while it is being written
      shard                     ShardReader: one shard, with its columns and values
      stream, columns, valuetable, files

`folder` and `format` import no library; the others need numpy, pyarrow and xxhash, and are imported on use.
"""
