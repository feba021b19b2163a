package io.github.suffrage_rs;

/** An error that a node has answered. */
public final class NodeException extends SuffrageException {
    private static final long serialVersionUID = 1;

    /** The HTTP status. */
    private final int status;
    /** The code of the error. */
    private final String reason;

    NodeException(String endpoint, int status, String reason, String message) {
        super(endpoint + " answers " + status + ": " + message
                + (status == 401 ? " (set tokenFile or SUFFRAGE_TOKEN_FILE to the file with the token of the cluster)" : ""));
        this.status = status;
        this.reason = reason;
    }

    /**
     * The HTTP status.
     *
     * @return the status
     */
    public int status() {
        return status;
    }

    /**
     * Tells whether the token is missing or wrong.
     *
     * @return true for status 401
     */
    public boolean isUnauthorized() {
        return status == 401;
    }

    /** The code of the error, such as "expired". It may be empty. */
    String reason() {
        return reason;
    }

    boolean isConflict(String code) {
        return status == 409 && reason.equals(code);
    }

    /** Tells whether another try cannot help. */
    boolean isPermanent() {
        return status >= 400 && status < 500 && status != 408 && status != 409 && status != 429;
    }
}
