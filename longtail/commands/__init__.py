"""The commands of `longtail`: each module is a program, whose `main` returns its exit code."""
