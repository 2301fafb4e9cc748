"""One convex step: rows with hinges under constraints, solved with a duality gap."""
