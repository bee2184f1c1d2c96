//! What connection strings mean: URLs, pairs, variables, files, and their order of precedence.
