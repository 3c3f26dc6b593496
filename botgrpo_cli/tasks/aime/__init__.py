"""The AIME task: integer answers graded exactly, solutions judged step by step."""
