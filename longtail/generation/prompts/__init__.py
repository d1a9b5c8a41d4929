"""Prompts: their texts, demonstrations, passages, endings (SPEC §3).

A prompt is a function of the study and of lake tables; it is built anew where it is needed, and never stored.
"""
