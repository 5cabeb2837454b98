"""The routes: parse, call, render. No route catches anything; `problems` has the one table."""
