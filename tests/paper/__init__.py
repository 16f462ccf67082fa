"""Every theorem, lemma, corollary, proposition and remark of the paper, by its label."""
