"""`Tables` on Lance.

1. A commit uses the dataset that the change was staged on, never its address: the address of a
   branch handle is that of main, and a commit sent there would destroy main.
2. Retries of Lance are off. A refused commit reaches the caller, who reads the table again.
3. Names of created files are derived from the transaction, never listed from a shared folder.

Reading order: `tables` implements the protocol and calls the other modules. `store` opens tables.
`read` reads rows, with `contents` (values of small fragments), `blobs` and `old_blobs` (blob
columns). `stage`, `reshaping`, `index` and `compact` write files; `handover` lets another process
commit them. `commit` publishes; `swap` is the compare-and-swap of the manifest. `branches` forks
and deletes branches, `history` reads transactions and versions, `table_files` names the files to
flush, `torn` finds versions that a power cut tore, `debris` finds files that no version refers to.
"""
