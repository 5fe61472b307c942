"""`scripts/demo`: the whole system at work on real alerts, for somebody who sees it for the first time.

`cli` is the command. It claims a folder (`folder`), keeps a stack up in it (`lifetime`) and lets `performance` send
what `scenario` holds, through `producers`. What became of it is read from the database (`history`) and from the fake
providers (`providers`), judged by `verdict`, and shown by `summary` and `guide` on a `console`.
"""
