//! Where the log ends: the walk, the table of verdicts, and what must be made durable before anything is served.
