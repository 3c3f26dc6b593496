"""Win rates of two sides under a pairwise judge: sides -> apps -> pairs -> tables, gallery, figure."""
