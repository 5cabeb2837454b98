"""The command line: each command parses its flags, calls the graph, and prints the result.

Invariants:

1. A command imports itself and no other command; heavy libraries are imported where they are used
   (ADR 12).
2. Results are printed on stdout, and everything else on stderr.
3. A global flag that has no meaning for a command is refused, never ignored.
   A word is the graph by its looks, never by its position.
4. `exits` alone maps errors to exit codes. No command catches an error to choose an exit code.

Modules, in reading order:

    app             `main`: global flags, the table of commands, errors
    lazy            imports a command when it is run
    command         what all commands share: the graph at any position, the global flags in help
    positionals     which word of a command line is the graph
    globals         the flags that every command takes, before or after its name
    accepted_flags  which global flags have a meaning for which command
    options         flags that several commands share
    config          `~/.omnigraph/config.yaml`
    credentials     the saved tokens of servers
    address         the graph that a command line names
    graphs          opens that graph, in storage or on a server
    inputs          reads queries and parameters, writes files
    terminal        colour, and the pager
    render          prints lines, JSON and errors
    tables          prints rows
    completion      candidates for the word that a shell completes
    progress        prints the stages of long work
    hints, exits    the hint and the exit code of an error
    warm/           hands a command to a helper process that has everything imported (ADR 35)
    commands/       one module for each group of commands
"""
