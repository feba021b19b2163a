package suffrage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// recheck is the longest time between two looks at the clock. Timers of Go stop while the machine is suspended, and the
// clock does not.
const recheck = 500 * time.Millisecond

// Leadership is a leadership of an election. It is valid until its deadline, which renewals in the background move. It
// ends for good: by Resign, at its deadline, or when the node says so.
type Leadership struct {
	client *Client
	name   string
	// endpoint and session are those of the node that gave the leadership.
	endpoint *endpoint
	session  string
	// now reads the clock.
	now func() Moment
	ctx context.Context
	// cancel cancels ctx, so that the work stops.
	cancel   context.CancelFunc
	handOver chan struct{}
	done     chan struct{}
	// told is closed when the node knows of the end, or need not know; tellErr is set before.
	told    chan struct{}
	tellErr error

	mu       sync.Mutex
	token    uint64
	deadline Moment
	margin   time.Duration
	// stopping is true when the work was told to stop. The deadline is not moved any more.
	stopping bool
	handing  bool
	ended    error
	// values counts the calls of SetValue.
	values uint64
}

func newLeadership(ctx context.Context, e *Election, now func() Moment, token uint64, deadline Moment, margin time.Duration) *Leadership {
	l := &Leadership{
		client:   e.client,
		name:     e.name,
		token:    token,
		now:      now,
		handOver: make(chan struct{}),
		done:     make(chan struct{}),
		told:     make(chan struct{}),
		deadline: deadline,
		margin:   margin,
	}
	l.ctx, l.cancel = context.WithCancel(ctx)
	return l
}

// Token is the fencing token: greater than the token of every leader before. Send it with every write. It may grow during
// a leadership, for example when voters are replaced.
func (l *Leadership) Token() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.token
}

// Context is cancelled when the work must stop: the stop margin before the deadline, when the node wants to hand over,
// or when the leadership has ended. It is derived from the context of Lead. From its cancellation on, the lease is not
// renewed. The leadership stays valid until Resign or the deadline, so that the work has time to stop.
func (l *Leadership) Context() context.Context {
	return l.ctx
}

// HandOver is closed when the node wants to hand over, because an operator moves the leader or the node stops. The sooner
// the user resigns, the sooner the next candidate leads.
func (l *Leadership) HandOver() <-chan struct{} {
	return l.handOver
}

func (l *Leadership) handedOver() bool {
	select {
	case <-l.handOver:
		return true
	default:
		return false
	}
}

// Done is closed when the leadership has ended, and Err tells why then.
func (l *Leadership) Done() <-chan struct{} {
	return l.done
}

// Check returns nil if the leadership is valid at this moment, and otherwise the reason for its end: ErrExpired,
// ErrResigned or ErrLost. Call it before each step of the work. A leadership that has ended never becomes valid again.
func (l *Leadership) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lapse()
	return l.ended
}

// Err is the reason for the end, as Check returns it.
func (l *Leadership) Err() error {
	return l.Check()
}

// Deadline is the moment at which the leadership ends unless it is renewed, or at which it has ended. Compare it with Now.
func (l *Leadership) Deadline() Moment {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lapse()
	return l.deadline
}

// Remaining is the time until the deadline. Zero if the leadership has ended.
func (l *Leadership) Remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.lapse()
	if l.ended != nil {
		return 0
	}
	return time.Duration(l.deadline - now)
}

// SetValue changes what this client says about itself while it leads: up to 4096 bytes of UTF-8, or an empty string for
// nothing. It returns when the node of this leadership has the value; other nodes show it soon. It returns the error of
// Check if the leadership is over, a *NodeError if the node refuses the value, and the error of ctx if ctx is done. Of
// several calls the last one counts.
func (l *Leadership) SetValue(ctx context.Context, value string) error {
	l.mu.Lock()
	l.values++
	order := l.values
	l.mu.Unlock()
	body := map[string]any{"session": l.session, "value": value, "order": order}
	for backoff := shortestRetry; ; backoff = least(2*backoff, longestBackoff) {
		if err := l.Check(); err != nil {
			return err
		}
		request, cancel := context.WithTimeout(ctx, replyTimeout)
		_, _, err := l.endpoint.post(request, electionPath(l.name, "value"), body)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		var refused *NodeError
		if errors.As(err, &refused) {
			if refused.Status == http.StatusConflict {
				return ErrLost
			}
			if refused.Permanent() {
				return err
			}
		}
		l.client.report(fmt.Errorf("%s: cannot set the value: %w", l.endpoint.name, err))
		if err := pause(ctx, backoff); err != nil {
			return err
		}
	}
}

// Resign ends the leadership, and then tells the node, so that the next candidate leads at once. Stop the work first. It
// returns when the node knows, or the error because of which the node does not: then the lease ends at its deadline. A
// leadership that has ended already is no error.
func (l *Leadership) Resign(ctx context.Context) error {
	l.mu.Lock()
	l.lapse()
	if l.ended == nil {
		l.end(ErrResigned)
	}
	l.mu.Unlock()
	select {
	case <-l.told:
		return l.tellErr
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lapse ends an expired leadership. It is called first at every input, with the lock held. It returns the clock's time.
func (l *Leadership) lapse() Moment {
	now := l.now()
	if l.ended == nil && now >= l.deadline {
		l.end(ErrExpired)
	}
	return now
}

// end ends the leadership for good. The lock is held.
func (l *Leadership) end(reason error) {
	if now := l.now(); now < l.deadline {
		l.deadline = now
	}
	l.ended = reason
	l.stopping = true
	l.cancel()
	close(l.done)
	l.client.release(l.name)
}

// lose ends the leadership because the node has ended it.
func (l *Leadership) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lapse()
	if l.ended == nil {
		l.end(ErrLost)
	}
}

// stop tells the work to stop. The leadership stays valid until its deadline.
func (l *Leadership) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lapse()
	l.stopping = true
	l.cancel()
}

// wantHandOver tells the work that the node wants to hand over.
func (l *Leadership) wantHandOver() {
	l.mu.Lock()
	l.lapse()
	if l.ended == nil && !l.handing {
		l.handing = true
		close(l.handOver)
	}
	l.mu.Unlock()
	l.stop()
}

// extend moves the deadline of a leadership that has neither ended nor begun to stop. A renewal that was overtaken
// neither shortens the lease nor takes its token back: the node keeps its promises.
func (l *Leadership) extend(token uint64, deadline Moment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lapse()
	if !l.stopping {
		l.token = greatest(l.token, token)
		l.deadline = greatest(l.deadline, deadline)
	}
}

// replace sets the deadline of a leadership by connection: its events come in order, so that the last one counts. A
// leadership that has begun to stop is only shortened.
func (l *Leadership) replace(token uint64, deadline Moment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lapse()
	if l.ended == nil {
		l.token = greatest(l.token, token)
	}
	if l.ended == nil && (!l.stopping || deadline < l.deadline) {
		l.deadline = deadline
		l.lapse()
	}
}

// tick does what is due by the clock: it stops the work at the margin, and ends the leadership at the deadline. It
// returns the time until the next of them, or whether the work has been told to stop.
func (l *Leadership) tick() (left time.Duration, stopping bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.lapse()
	stopAt := l.deadline - Moment(l.margin)
	if !l.stopping && now >= stopAt {
		l.stopping = true
		l.cancel()
	}
	if l.stopping {
		return time.Duration(l.deadline - now), true
	}
	return time.Duration(stopAt - now), false
}

// reported tells the result of telling the node.
func (l *Leadership) reported(err error) {
	l.tellErr = err
	close(l.told)
}
