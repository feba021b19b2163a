(model "never two leaders, tokens increase; one list of voters")
