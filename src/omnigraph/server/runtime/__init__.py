"""The state of a running server: its configuration, its open graphs, who may do what.

Invariants:

1. A `Configuration` is read as a whole: flags, files and environment at one time. A configuration
   that cannot be used changes nothing.
2. Workers take over a configuration from `ConfigBroadcast`; none of them reads the files again.
3. The text of a bearer token is in no object that outlives its reading.
4. A graph stays open across reloads, and its guard follows the new policy at once.

Modules, in reading order:

    settings          flags, `server.yaml` and the environment, as values
    tokens            bearer tokens: the actor of a token
    configuration     all of these as one value
    config_broadcast  how one worker hands that value to the others
    guard             authentication modes, and the gate of each graph
    admission         how much an actor may have under way
    state             `ServerState` (served now) and `ServerRuntime` (reloads it)
    shared_spark      one Spark Connect server for all workers
"""
