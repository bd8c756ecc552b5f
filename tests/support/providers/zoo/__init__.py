"""A zoo: fakes of providers that enforce their rules as a server does, each rule with its public source."""
