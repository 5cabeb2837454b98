"""The command line: parse, call, render.

`main` in `app` runs a command. `globals` takes the flags that may stand anywhere out of the command
line first; `exits` maps errors to exit codes; `render` prints; `commands` holds one module for each
group of commands.
"""
