package suffrage

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// connection is a leadership by connection: the node renews for as long as the connection stays open.
type connection struct {
	endpoint *endpoint
	body     io.Closer
	hangUp   context.CancelFunc
	events   chan event
}

// event is a line of the node, or the end of the connection.
type event struct {
	line reply
	err  error
}

// holdConnection campaigns by a connection to the node of this machine until it leads, or until the node cannot be used.
// It also tells whether the client has waited in the node's queue.
func (e *Election) holdConnection(ctx context.Context, endpoint *endpoint) (*Leadership, bool, error) {
	body := e.campaignBody()
	body.Hold = "connection"
	// The connection outlives ctx: the leadership is valid until the work has stopped.
	request, hangUp := context.WithCancel(context.Background())
	opened := make(chan struct{})
	go func() {
		timer := time.NewTimer(replyTimeout + firstWait)
		defer timer.Stop()
		select {
		case <-opened:
		case <-ctx.Done():
			hangUp()
		case <-timer.C:
			hangUp()
		}
	}()
	response, err := endpoint.open(request, http.MethodPost, electionPath(e.name, "campaign"), body)
	close(opened)
	if err != nil {
		hangUp()
		return nil, false, err
	}
	c := &connection{endpoint: endpoint, body: response.Body, hangUp: hangUp, events: make(chan event)}
	go c.read(request, response.Body)
	waited := false
	for {
		select {
		case <-ctx.Done():
			c.close()
			return nil, waited, ctx.Err()
		case got := <-c.events:
			now := Now()
			switch {
			case got.err != nil:
				c.close()
				return nil, waited, got.err
			case got.line.Event == "waiting":
				waited = true
			case got.line.Event == "lost":
				c.close()
				return nil, waited, fmt.Errorf("the node has ended the campaign: %s", got.line.Reason)
			case got.line.Event == "hand_over_wanted":
				// The node wants the lease back before this client has heard that it leads.
				c.close()
				return nil, waited, errors.New("the node hands over")
			case got.line.Event == "leading":
				if err := c.comparable(got.line, now); err != nil {
					c.close()
					return nil, waited, err
				}
				deadline := Moment(got.line.DeadlineNs)
				if deadline <= now {
					c.close()
					return nil, waited, errors.New("the lease had expired before the node's event arrived")
				}
				leadership := newLeadership(ctx, e, Now, got.line.Token, deadline, e.margin(time.Duration(deadline-now)))
				leadership.endpoint, leadership.session = endpoint, got.line.Session
				go c.keep(ctx, leadership)
				return leadership, waited, nil
			}
		}
	}
}

// comparable tells whether the deadline of an event can be compared with the clock of this process. The node wrote the
// event before now: a later time is of another clock, for example in a container with a time namespace of its own.
func (c *connection) comparable(line reply, now Moment) error {
	if Moment(line.NowNs) > now || line.DeadlineNs == 0 {
		return fmt.Errorf("the clock of the node shows %d ns, and the clock of this process %d ns: "+
			"they do not share CLOCK_BOOTTIME; use the node's HTTP address instead of its socket", line.NowNs, now)
	}
	return nil
}

// read reads events until the connection ends.
func (c *connection) read(ctx context.Context, body io.Reader) {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, longestReply)
	send := func(got event) {
		select {
		case c.events <- got:
		case <-ctx.Done():
		}
	}
	for lines.Scan() {
		var got event
		if err := json.Unmarshal(lines.Bytes(), &got.line); err != nil {
			got.err = fmt.Errorf("the event is not as expected: %w", err)
		}
		send(got)
	}
	err := lines.Err()
	if err == nil {
		err = errors.New("the node has closed the connection")
	}
	send(event{err: err})
}

func (c *connection) close() {
	c.hangUp()
	c.body.Close()
}

// keep follows the events of the node until the leadership has ended, and then closes the connection, which tells the
// node.
func (c *connection) keep(parent context.Context, l *Leadership) {
	parentDone := parent.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-l.done:
			c.close()
			l.reported(nil)
			return
		case <-parentDone:
			parentDone = nil
			l.stop()
		case got := <-c.events:
			c.judge(l, got)
		case <-timer.C:
		}
		left, _ := l.tick()
		if !timer.Stop() {
			select {
			case <-timer.C:
			default:
			}
		}
		timer.Reset(least(greatest(left, 0), recheck))
	}
}

// judge changes the leadership as an event says. All changes look at the clock first.
func (c *connection) judge(l *Leadership, got event) {
	if got.err != nil || got.line.Event == "lost" || got.line.Event == "waiting" {
		l.lose()
		return
	}
	if got.line.Event != "renewed" && got.line.Event != "hand_over_wanted" {
		// An event of a later version.
		return
	}
	if err := c.comparable(got.line, l.now()); err != nil {
		l.client.report(err)
		l.lose()
		return
	}
	l.replace(got.line.Token, Moment(got.line.DeadlineNs))
	if got.line.Event == "hand_over_wanted" {
		l.wantHandOver()
	}
}
