package io.github.suffrage_rs;

/** This client leads the election already, or waits to lead it. */
public final class InUseException extends SuffrageException {
    private static final long serialVersionUID = 1;

    InUseException(String election) {
        super("this client leads the election " + election + " already, or waits to lead it");
    }
}
