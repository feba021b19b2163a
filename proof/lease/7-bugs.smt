(outside ignore-pin "x")
