package suffrage

import (
	"errors"
	"fmt"
	"net/http"
)

// Reasons for which a leadership has ended, as Leadership.Err and Leadership.Check return them.
var (
	// ErrResigned: the user has called Resign.
	ErrResigned = errors.New("suffrage: this leadership has ended: resigned")
	// ErrExpired: the deadline has passed.
	ErrExpired = errors.New("suffrage: this leadership has ended: the deadline has passed")
	// ErrLost: the node says that the session is over, or the connection of a local leadership has closed.
	ErrLost = errors.New("suffrage: this leadership has ended: the node has ended the session")
)

// ErrInUse is the error of Lead if this client leads the election already, or waits to lead it.
var ErrInUse = errors.New("suffrage: this client leads this election already, or waits to lead it")

// ConfigError is an error in the settings of a client or an election.
type ConfigError struct {
	// Setting is the name of the setting.
	Setting string
	// Reason says what is wrong and what to do.
	Reason string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("suffrage: %s: %s", e.Setting, e.Reason)
}

// NodeError is an error that a node has answered.
type NodeError struct {
	// Endpoint is the endpoint of the node.
	Endpoint string
	// Status is the HTTP status.
	Status int
	// Reason is the code of the error, such as "expired". It may be empty.
	Reason string
	// Message is the node's sentence about the error.
	Message string
}

func (e *NodeError) Error() string {
	message := e.Message
	if e.Unauthorized() {
		message += " (set Config.TokenFile or SUFFRAGE_TOKEN_FILE to the file with the token of the cluster)"
	}
	return fmt.Sprintf("suffrage: %s answers %d: %s", e.Endpoint, e.Status, message)
}

// Unauthorized tells whether the token is missing or wrong.
func (e *NodeError) Unauthorized() bool {
	return e.Status == http.StatusUnauthorized
}

// Permanent tells whether another try cannot help.
func (e *NodeError) Permanent() bool {
	retry := e.Status == http.StatusConflict || e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout
	return e.Status >= 400 && e.Status < 500 && !retry
}
