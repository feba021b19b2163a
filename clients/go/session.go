package suffrage

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"net/http"
	"time"
)

const (
	// firstWait is how long a node may wait before it answers the first campaign of a session: short, so that the client
	// learns its session, and notices a node that does not answer.
	firstWait = time.Second
	// laterWait is the same for later campaigns of the session.
	laterWait = 10 * time.Second
	// replyTimeout is how long a client waits for a reply, besides the wait of a campaign.
	replyTimeout = 2 * time.Second
	// campaignInterval limits the rate of campaigns at a node that answers at once.
	campaignInterval = 200 * time.Millisecond
	// resignTimeout is how long the client waits until the node knows of a resignation.
	resignTimeout = 5 * time.Second
	// longestValidity limits what a node may promise. It prevents an overflow.
	longestValidity = 24 * time.Hour
	// maxInFlight is the greatest number of renewals without a reply.
	maxInFlight = 8
	// shortestRetry is the shortest time between two renewals.
	shortestRetry = 20 * time.Millisecond
)

// session is a session at a node: renewals and the resignation go to the node that gave it.
type session struct {
	election *Election
	endpoint *endpoint
	id       string
	// ttl is the length of the lease, as far as the client knows.
	ttl time.Duration
}

type campaignBody struct {
	Session string `json:"session,omitempty"`
	TTL     string `json:"ttl,omitempty"`
	Wait    string `json:"wait,omitempty"`
	Rank    int64  `json:"rank,omitempty"`
	Hold    string `json:"hold,omitempty"`
	Value   string `json:"value,omitempty"`
}

func (e *Election) campaignBody() campaignBody {
	body := campaignBody{Rank: e.options.Rank, Value: e.options.Value}
	if e.options.TTL > 0 {
		body.TTL = milliseconds(e.options.TTL)
	}
	return body
}

func milliseconds(duration time.Duration) string {
	return fmt.Sprintf("%dms", duration.Milliseconds())
}

// validity is the time that a node promises in milliseconds.
func validity(milliseconds int64) time.Duration {
	if milliseconds > longestValidity.Milliseconds() {
		return longestValidity
	}
	return time.Duration(milliseconds) * time.Millisecond
}

// campaignSession campaigns at a node until it leads, or until the node cannot be used. It also tells whether the client
// has waited in the node's queue.
func (e *Election) campaignSession(ctx context.Context, endpoint *endpoint) (*Leadership, bool, error) {
	s := &session{election: e, endpoint: endpoint, ttl: e.options.TTL}
	waited, failed := false, false
	for {
		body := e.campaignBody()
		body.Session = s.id
		wait := laterWait
		if s.id == "" {
			wait = firstWait
		}
		body.Wait = milliseconds(wait)
		sent := Now()
		request, cancel := context.WithTimeout(ctx, wait+replyTimeout)
		status, answer, err := endpoint.post(request, electionPath(e.name, "campaign"), body)
		cancel()
		var refused *NodeError
		switch {
		case ctx.Err() != nil:
			if err == nil {
				s.id = answer.Session
			}
			s.abandon()
			return nil, waited, ctx.Err()
		case err == nil && status == http.StatusOK:
			s.id, failed = answer.Session, false
			validFor := validity(answer.ValidForMs)
			deadline := sent + Moment(validFor)
			if s.ttl == 0 {
				s.ttl = validFor
			}
			if deadline <= Now() {
				// The reply took too long. The session leads, so that a campaign with it is a renewal.
				break
			}
			leadership := newLeadership(ctx, e, Now, answer.Token, deadline, e.margin(time.Duration(deadline-Now())))
			leadership.endpoint, leadership.session = endpoint, s.id
			go s.keep(ctx, leadership)
			return leadership, waited, nil
		case err == nil:
			// In the queue.
			s.id, failed, waited = answer.Session, false, true
			if answer.YourTurn {
				// The lease begins with the next request, which does not wait.
				continue
			}
		case errors.As(err, &refused) && refused.Status == http.StatusConflict && refused.Reason == "expired":
			s.id = ""
		case errors.As(err, &refused) && refused.Status == http.StatusConflict && refused.Reason == "superseded":
			// The answer came to another request of the session, which this client has given up.
		case errors.As(err, &refused) || failed || s.id == "":
			s.abandon()
			return nil, waited, err
		default:
			// The session has its place in the queue: one more try.
			failed = true
		}
		if rest := time.Duration(sent + Moment(campaignInterval) - Now()); rest > 0 {
			// If ctx is done, the next request fails at once.
			_ = pause(ctx, rest)
		}
	}
}

// abandon gives the session up. It waits a moment until the node knows, and goes on telling it in the background.
func (s *session) abandon() {
	if s.id == "" {
		return
	}
	told := make(chan struct{})
	go func() {
		defer close(told)
		s.election.client.report(s.resign())
	}()
	timer := time.NewTimer(500 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-told:
	case <-timer.C:
	}
}

// resign tells the node that the session is over, again and again until the node has answered, or the session has expired
// there in any case.
func (s *session) resign() error {
	giveUp := s.ttl * 2
	if giveUp < replyTimeout {
		giveUp = replyTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), giveUp)
	defer cancel()
	for retry := shortestRetry; ; retry *= 2 {
		request, done := context.WithTimeout(ctx, replyTimeout)
		_, _, err := s.endpoint.post(request, electionPath(s.election.name, "resign"), map[string]string{"session": s.id})
		done()
		var refused *NodeError
		if err == nil || (errors.As(err, &refused) && refused.Status == http.StatusConflict) {
			return nil
		}
		failed := fmt.Errorf("%s: cannot resign: %w", s.endpoint.name, err)
		if retry > replyTimeout {
			retry = replyTimeout
		}
		if (refused != nil && refused.Permanent()) || pause(ctx, retry) != nil {
			return failed
		}
	}
}

// renewal is the outcome of a renewal.
type renewal struct {
	sent   Moment
	answer reply
	err    error
}

// keep renews until the leadership has ended, and then tells the node.
func (s *session) keep(parent context.Context, l *Leadership) {
	requests, hangUp := context.WithCancel(context.Background())
	renewals := make(chan renewal, maxInFlight)
	inFlight := 0
	left, stopping := l.tick()
	renewAt := l.now() + Moment(spread(left/3))
	parentDone := parent.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-l.done:
			hangUp()
			if l.Err() == ErrLost {
				l.reported(nil)
			} else {
				l.reported(s.resign())
			}
			return
		case <-parentDone:
			parentDone = nil
			l.stop()
		case got := <-renewals:
			inFlight--
			s.judge(l, got)
			left, _ = l.tick()
			now := l.now()
			took := time.Duration(now - got.sent)
			switch {
			case got.err == nil:
				// Earlier if two more round trips would not fit into the rest.
				renewAt = now + Moment(least(spread(left/3), left-2*took))
			case left/10 > shortestRetry:
				renewAt = least(renewAt, now+Moment(spread(left/10)))
			}
		case <-timer.C:
		}
		left, stopping = l.tick()
		now := l.now()
		if !stopping && now >= renewAt {
			renewAt = now + Moment(greatest(left/3, shortestRetry))
			if inFlight < maxInFlight {
				inFlight++
				timeout := greatest(left/2, shortestRetry)
				go func() { renewals <- s.renew(requests, timeout) }()
			}
		}
		next := left
		if !stopping {
			next = least(next, time.Duration(renewAt-now))
		}
		if !timer.Stop() {
			select {
			case <-timer.C:
			default:
			}
		}
		timer.Reset(least(greatest(next, 0), recheck))
	}
}

// renew sends one renewal. The clock is read just before it is sent.
func (s *session) renew(ctx context.Context, timeout time.Duration) renewal {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	sent := Now()
	_, answer, err := s.endpoint.post(ctx, electionPath(s.election.name, "renew"), map[string]string{"session": s.id})
	return renewal{sent, answer, err}
}

// judge changes the leadership as the reply to a renewal says. All changes look at the clock first.
func (s *session) judge(l *Leadership, got renewal) {
	var refused *NodeError
	switch {
	case got.err == nil:
		l.extend(got.answer.Token, got.sent+Moment(validity(got.answer.ValidForMs)))
	case errors.As(got.err, &refused) && refused.Status == http.StatusConflict:
		switch refused.Reason {
		case "revoked":
			l.wantHandOver()
		case "superseded":
			// The answer comes to another renewal.
		default:
			l.lose()
		}
	case l.Check() == nil:
		s.election.client.report(fmt.Errorf("%s: cannot renew: %w", s.endpoint.name, got.err))
	}
}

// spread returns up to a fifth less, so that the renewals of many elections do not come all at once.
func spread(span time.Duration) time.Duration {
	return span - time.Duration(rand.Int63n(int64(greatest(span/5, 1))))
}

func least[T ~int64 | ~uint64](a, b T) T {
	if a < b {
		return a
	}
	return b
}

func greatest[T ~int64 | ~uint64](a, b T) T {
	if a > b {
		return a
	}
	return b
}
