"""What a run or a study looks like to a person: rollouts with their advantages as colour, one page of everything."""
