package suffrage

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// observeTimeout is the longest silence of a node that observes: it sends a comment more often.
const observeTimeout = 60 * time.Second

// Leader is the leader of an election, as a node knows it.
type Leader struct {
	// Node is the id of the leader's node. Zero if no leader is known.
	Node uint64
	// Token is the leader's token. Zero if no leader is known.
	Token uint64
	// Value is what the leader says about itself. Empty if it says nothing.
	Value string
}

// leaderBody is the leader in an answer of a node.
type leaderBody struct {
	Leader uint64 `json:"leader"`
	Token  uint64 `json:"token"`
	Value  string `json:"value"`
}

func (b leaderBody) leader() Leader {
	return Leader{Node: b.Leader, Token: b.Token, Value: b.Value}
}

// Leader asks the nodes, in order, who leads. What it returns is for people and load balancers: it may be old. Only a
// Leadership proves that this client leads.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	if e.name == "" {
		return Leader{}, &ConfigError{"name", "must not be empty"}
	}
	var last error
	for _, endpoint := range e.client.endpoints {
		leader, err := e.ask(ctx, endpoint)
		if err == nil {
			return leader, nil
		}
		last = fmt.Errorf("%s: %w", endpoint.name, err)
	}
	return Leader{}, last
}

func (e *Election) ask(ctx context.Context, endpoint *endpoint) (Leader, error) {
	ctx, cancel := context.WithTimeout(ctx, replyTimeout)
	defer cancel()
	response, err := endpoint.open(ctx, http.MethodGet, "/elections/"+url.PathEscape(e.name), nil)
	if err != nil {
		return Leader{}, err
	}
	defer response.Body.Close()
	var body leaderBody
	if err := json.NewDecoder(io.LimitReader(response.Body, longestReply)).Decode(&body); err != nil {
		return Leader{}, err
	}
	return body.leader(), nil
}

// Observe calls changed with the present leader and after each change, until ctx is done or changed returns false. What it
// tells is for people and load balancers: it may be old. Only a Leadership proves that this client leads.
func (e *Election) Observe(ctx context.Context, changed func(Leader) bool) error {
	if e.name == "" {
		return &ConfigError{"name", "must not be empty"}
	}
	backoff := firstBackoff
	var told *Leader
	for {
		var last error
		for _, endpoint := range e.client.endpoints {
			again, err := e.observe(ctx, endpoint, func(leader Leader) bool {
				backoff = firstBackoff
				if told != nil && *told == leader {
					return true
				}
				told = &leader
				return changed(leader)
			})
			if !again {
				return nil
			}
			if ctx.Err() != nil {
				return cancelled(ctx, last)
			}
			var refused *NodeError
			if errors.As(err, &refused) && refused.Permanent() {
				return err
			}
			last = fmt.Errorf("%s: cannot observe: %w", endpoint.name, err)
			e.client.report(last)
		}
		if pause(ctx, backoff) != nil {
			return cancelled(ctx, last)
		}
		if backoff *= 2; backoff > longestBackoff {
			backoff = longestBackoff
		}
	}
}

// observe reads the events of one node. It returns false if nobody wants more.
func (e *Election) observe(ctx context.Context, endpoint *endpoint, changed func(Leader) bool) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(observeTimeout, cancel)
	defer silence.Stop()
	response, err := endpoint.open(ctx, http.MethodGet, electionPath(e.name, "observe"), nil)
	if err != nil {
		return true, err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, longestReply)
	for lines.Scan() {
		silence.Reset(observeTimeout)
		if !strings.HasPrefix(lines.Text(), "data:") {
			continue
		}
		data := strings.TrimPrefix(lines.Text(), "data:")
		var event leaderBody
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			return true, err
		}
		if !changed(event.leader()) {
			return false, nil
		}
	}
	if err := lines.Err(); err != nil {
		return true, err
	}
	return true, errors.New("the node has closed the stream of events")
}
