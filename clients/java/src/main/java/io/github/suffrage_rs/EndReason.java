package io.github.suffrage_rs;

/** The reason for which a leadership has ended. */
public enum EndReason {
    /** The user has resigned. */
    RESIGNED("resigned"),
    /** The deadline has passed. */
    EXPIRED("the deadline has passed"),
    /** The node says that the session is over, or the connection of a local leadership has closed. */
    LOST("the node has ended the session");

    private final String text;

    EndReason(String text) {
        this.text = text;
    }

    String text() {
        return text;
    }
}
