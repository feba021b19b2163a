/** The base class of all errors of this package. */
export class SuffrageError extends Error {
  constructor(message: string) {
    super(message);
    this.name = new.target.name;
  }
}

/** The leadership is over: stop the work at once. */
export class LeadershipEnded extends SuffrageError {
  /** @param reason `expired`, `resigned` or `lost`. */
  constructor(readonly reason: string) {
    super(`the leadership has ended: ${reason}`);
  }
}

/** This client leads this election already, or waits to lead it. */
export class InUse extends SuffrageError {}

/** The bearer token is missing or wrong. */
export class Unauthorized extends SuffrageError {}

/** A setting is wrong, or the node refuses the request for good. */
export class Invalid extends SuffrageError {}

/** No node has answered a question. `lead` does not reject with it: it goes on trying. */
export class Unavailable extends SuffrageError {}

/** A fence has seen a greater token: the writer is a former leader. */
export class StaleToken extends SuffrageError {}

/** An endpoint did not answer, or not in a way that can be understood: try another one. */
export class NoAnswer extends SuffrageError {}
