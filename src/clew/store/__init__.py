"""Keeps runs on disk, and reads them.

    folder      run folders: where they are created, their names, run.json
    format      the format's own page: layout, schema, version, history
    flush       what the recorder hands over: everything since the last flush
    writer      ShardWriter: the records of one process, one batch for each flush
      encode, arrays, blobs     a flush as Arrow columns, and the bytes of arrays beside them
      framing                   seals a message with its checksum, and finds complete messages
    reader      RunReader: a run folder, also while it is being written
      shard                     ShardReader: one shard, with its columns and values
      stream, columns, valuetable, files

`folder` and `format` import no library; the others need numpy, pyarrow and xxhash, and are imported on use.
"""
