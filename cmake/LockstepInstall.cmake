# Written in full below the skeleton.
