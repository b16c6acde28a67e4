"""What ``cacheinf bench`` runs: every claim of the project is measured here."""
