"""Warm starts: a helper process that has everything imported, and forks for each command (ADR 35).

    client (a shell's `omnigraph …`)              helper (`omnigraph up`)
      ── descriptors, arguments, environment ──▶   checks them, forks
      ◀────────────── its process id ───────────   child: becomes the command
      ── signals, by kill ─────────────────────▶   child
      ◀────────────── its exit code ────────────   child; the helper, if a signal killed it

1. The helper never does anything that starts a thread of Lance. It looks for such a thread before
   every fork, and ends if there is one.
2. Only processes of the same user talk: the folder of the socket is private, and both sides ask
   the kernel for the user of the other side before they send anything.
3. A command is warm only if a fresh process would have the same code and the same limits
   (`surroundings`). In every other case, and after every failure before the child has begun, the
   client runs the command itself. It never prints why.
4. The child has the client's descriptors, folder, environment, umask and ignored signals. The
   helper keeps none of them, writes no log, and starts with few variables of its environment.
5. A child outlives its helper, and reports its exit code itself.
6. The client imports only a few modules of the standard library before it decides.

Modules, in reading order:

    surroundings   what client and helper must have in common
    place          the private folder and the socket; the user at the other end
    messages       requests and replies as bytes
    client         `main`: has a command run by the helper, or runs it here
    handover       sends a command to the helper, and signals to the command
    helper         imports, listens, forks, reports
    child          becomes the command
    ending         runs a command to its end, warm or cold
    control        starts, stops and describes the helper, for `up` and `down`
"""
