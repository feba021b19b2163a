package io.github.suffrage_rs;

/** The leadership has ended: stop the work. */
public final class LeadershipEndedException extends SuffrageException {
    private static final long serialVersionUID = 1;

    /** The reason for the end. */
    private final EndReason reason;

    LeadershipEndedException(EndReason reason) {
        super("this leadership has ended: " + reason.text());
        this.reason = reason;
    }

    /**
     * The reason for the end.
     *
     * @return the reason
     */
    public EndReason reason() {
        return reason;
    }
}
