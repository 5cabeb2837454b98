"""A graph as tools for agents: the Model Context Protocol on standard input and output."""
