package suffrage

import (
	"fmt"
	"sync"
)

// StaleTokenError is the error of a token that is smaller than the greatest token a fence has seen: the leadership of
// that token has ended.
type StaleTokenError struct {
	// Token is the refused token.
	Token uint64
	// Greatest is the greatest token that the fence has seen.
	Greatest uint64
}

func (e *StaleTokenError) Error() string {
	return fmt.Sprintf("token %d is stale: a later leader has token %d; stop, this leadership has ended", e.Token, e.Greatest)
}

// Fence refuses tokens that are smaller than the greatest token it has seen. A resource server checks the token of each
// write with it. The zero value has seen no token.
//
// A check and a write are two steps, and a later leader may write in between. Update makes them one step within one
// program. For a database, check in the transaction of the write: the README has the SQL.
type Fence struct {
	mu       sync.Mutex
	greatest uint64
}

// NewFence returns a fence that has seen this token, which was stored with the resource.
func NewFence(greatest uint64) *Fence {
	return &Fence{greatest: greatest}
}

// Check returns a *StaleTokenError if the fence has seen a greater token. Otherwise it refuses smaller tokens from now on.
func (f *Fence) Check(token uint64) error {
	return f.Update(token, func() error { return nil })
}

// Update checks the token and calls write, as one step: no write with a greater token happens between them. It returns
// the error of write, or a *StaleTokenError without calling write.
func (f *Fence) Update(token uint64, write func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if token < f.greatest {
		return &StaleTokenError{Token: token, Greatest: f.greatest}
	}
	f.greatest = token
	return write()
}

// Greatest is the greatest token that the fence has seen, to be stored with the resource. Zero if it has seen none.
func (f *Fence) Greatest() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.greatest
}
