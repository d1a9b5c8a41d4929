"""Plants faults, one at a time, and names those that the tests miss: `make mutants`, and `make mutants-sql` for dbt."""
