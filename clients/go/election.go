package suffrage

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"time"
)

const (
	// firstBackoff and longestBackoff are the pauses after a round in which no endpoint could be used.
	firstBackoff   = 100 * time.Millisecond
	longestBackoff = 2 * time.Second
)

// Lead campaigns until this client leads, and returns the leadership. It tries the endpoints in order, again and again,
// until ctx is done. The leadership's context is derived from ctx. It returns ErrInUse if this client leads the election
// already or waits to lead it, a *NodeError that another try cannot help, or a *ConfigError.
func (e *Election) Lead(ctx context.Context) (*Leadership, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	if !e.client.acquire(e.name) {
		return nil, ErrInUse
	}
	leadership, err := e.campaign(ctx)
	if err != nil {
		e.client.release(e.name)
	}
	return leadership, err
}

func (e *Election) campaign(ctx context.Context) (*Leadership, error) {
	backoff := firstBackoff
	for {
		var last error
		for _, endpoint := range e.client.endpoints {
			var leadership *Leadership
			var waited bool
			var err error
			if endpoint.local {
				leadership, waited, err = e.holdConnection(ctx, endpoint)
			} else {
				leadership, waited, err = e.campaignSession(ctx, endpoint)
			}
			if err == nil {
				return leadership, nil
			}
			if ctx.Err() != nil {
				return nil, cancelled(ctx, last)
			}
			var refused *NodeError
			var config *ConfigError
			if errors.As(err, &config) || (errors.As(err, &refused) && refused.Permanent()) {
				return nil, err
			}
			last = fmt.Errorf("%s: %w", endpoint.name, err)
			e.client.report(last)
			if waited {
				backoff = firstBackoff
			}
		}
		// A random part, so that the clients of a node that is gone do not come back at once.
		if err := pause(ctx, backoff/2+time.Duration(rand.Int63n(int64(backoff)))); err != nil {
			return nil, cancelled(ctx, last)
		}
		if backoff *= 2; backoff > longestBackoff {
			backoff = longestBackoff
		}
	}
}

func cancelled(ctx context.Context, last error) error {
	if last == nil {
		return fmt.Errorf("suffrage: stopped to wait: %w", ctx.Err())
	}
	return fmt.Errorf("suffrage: stopped to wait: %w; the last error was: %v", ctx.Err(), last)
}

// pause waits, unless ctx is done earlier.
func pause(ctx context.Context, duration time.Duration) error {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// margin is the stop margin of a lease of this length.
func (e *Election) margin(validFor time.Duration) time.Duration {
	if e.options.StopMargin > 0 {
		return e.options.StopMargin
	}
	return validFor / 10
}

// Run leads, calls work with the leadership and its context, and resigns when work has returned. If the leadership was
// lost or handed over while ctx lives, it campaigns again. It returns nil when ctx is done, the error of work if work
// returned while it led, and otherwise the error of Lead.
func (e *Election) Run(ctx context.Context, work func(context.Context, *Leadership) error) error {
	for {
		leadership, err := e.Lead(ctx)
		if ctx.Err() != nil && err != nil {
			return nil
		}
		if err != nil {
			return err
		}
		began, until := leadership.now(), leadership.Deadline()
		told, err := e.workAndResign(leadership, work)
		if ctx.Err() != nil {
			return nil
		}
		if !told {
			return err
		}
		e.client.report(err)
		// After a hand-over others lead first.
		if leadership.handedOver() && pause(ctx, time.Duration(until-began)) != nil {
			return nil
		}
	}
}

// workAndResign resigns also if work panics: the work has stopped. It tells whether the work was told to stop.
func (e *Election) workAndResign(leadership *Leadership, work func(context.Context, *Leadership) error) (bool, error) {
	defer func() {
		// The context of Lead may be done: the node is told all the same.
		ctx, cancel := context.WithTimeout(context.Background(), resignTimeout)
		defer cancel()
		e.client.report(leadership.Resign(ctx))
	}()
	err := work(leadership.ctx, leadership)
	return leadership.ctx.Err() != nil, err
}
