// The program driver runs the client for the suite in clients/suite, whose README has the protocol.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	suffrage "github.com/suffrage-rs/suffrage/clients/go"
)

type command struct {
	Op           string   `json:"op"`
	ID           uint64   `json:"id"`
	Election     string   `json:"election"`
	TTLMs        int64    `json:"ttl_ms"`
	StopMarginMs int64    `json:"stop_margin_ms"`
	Endpoints    []string `json:"endpoints"`
	TokenFile    string   `json:"token_file"`
	CAFile       string   `json:"ca_file"`
	Fence        string   `json:"fence"`
	Token        uint64   `json:"token"`
	Value        string   `json:"value"`
}

// participation is a campaign and its leadership.
type participation struct {
	cancel     context.CancelFunc
	leadership *suffrage.Leadership
	resigned   bool
	// over is closed after the last event.
	over chan struct{}
}

type driver struct {
	output sync.Mutex

	mu      sync.Mutex
	clients map[string]*suffrage.Client
	parts   map[uint64]*participation
	fences  map[string]*suffrage.Fence
}

type fields map[string]any

// noticed is a context that tells when Lead first uses it: then the client has marked the election as in use.
type noticed struct {
	context.Context
	once  sync.Once
	begun chan struct{}
}

func (n *noticed) Done() <-chan struct{} {
	n.once.Do(func() { close(n.begun) })
	return n.Context.Done()
}

func main() {
	d := &driver{
		clients: make(map[string]*suffrage.Client),
		parts:   make(map[uint64]*participation),
		fences:  make(map[string]*suffrage.Fence),
	}
	d.print(fields{"event": "ready", "clock": "boottime"})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			fmt.Fprintf(os.Stderr, "driver: %v: %s\n", err, lines.Text())
			os.Exit(1)
		}
		if c.Op == "exit" {
			break
		}
		d.execute(c)
	}
	d.exit()
}

func (d *driver) execute(c command) {
	switch c.Op {
	case "lead":
		d.lead(c)
	case "check":
		d.check(c.ID)
	case "resign":
		d.mu.Lock()
		part := d.parts[c.ID]
		d.mu.Unlock()
		if part != nil {
			go d.resign(part)
		}
	case "value":
		go d.setValue(c)
	case "leader":
		go d.leader(c)
	case "fence":
		d.mu.Lock()
		fence := d.fences[c.Fence]
		if fence == nil {
			fence = suffrage.NewFence(0)
			d.fences[c.Fence] = fence
		}
		d.mu.Unlock()
		d.print(fields{"event": "fenced", "fence": c.Fence, "token": c.Token, "accepted": fence.Check(c.Token) == nil})
	default:
		fmt.Fprintf(os.Stderr, "driver: unknown command %q\n", c.Op)
		os.Exit(1)
	}
}

func (d *driver) print(line fields) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	d.output.Lock()
	defer d.output.Unlock()
	os.Stdout.Write(append(text, '\n'))
}

func (d *driver) client(c command) (*suffrage.Client, error) {
	key := strings.Join(append(append([]string{}, c.Endpoints...), c.TokenFile, c.CAFile), "\n")
	d.mu.Lock()
	defer d.mu.Unlock()
	if client := d.clients[key]; client != nil {
		return client, nil
	}
	report := func(err error) { fmt.Fprintf(os.Stderr, "driver: %v\n", err) }
	config := suffrage.Config{Endpoints: c.Endpoints, TokenFile: c.TokenFile, CAFile: c.CAFile, OnError: report}
	client, err := suffrage.New(config)
	if err == nil {
		d.clients[key] = client
	}
	return client, err
}

func (d *driver) lead(c command) {
	inner, cancel := context.WithCancel(context.Background())
	ctx := &noticed{Context: inner, begun: make(chan struct{})}
	part := &participation{cancel: cancel, over: make(chan struct{})}
	d.mu.Lock()
	d.parts[c.ID] = part
	d.mu.Unlock()
	go func() {
		defer close(part.over)
		client, err := d.client(c)
		var leadership *suffrage.Leadership
		if err == nil {
			options := suffrage.Options{TTL: millis(c.TTLMs), StopMargin: millis(c.StopMarginMs), Value: c.Value}
			leadership, err = client.Election(c.Election, options).Lead(ctx)
		}
		at := suffrage.Now()
		switch {
		case errors.Is(err, context.Canceled):
			d.print(fields{"event": "ended", "id": c.ID, "reason": "cancelled", "at_ns": at})
		case err != nil:
			d.print(fields{"event": "error", "id": c.ID, "kind": kind(err), "message": err.Error()})
		default:
			d.follow(c.ID, part, leadership, at)
		}
	}()
	// Campaigns begin in the order of their commands.
	select {
	case <-ctx.begun:
	case <-part.over:
	}
}

func millis(milliseconds int64) time.Duration {
	return time.Duration(milliseconds) * time.Millisecond
}

func kind(err error) string {
	var refused *suffrage.NodeError
	var config *suffrage.ConfigError
	switch {
	case errors.Is(err, suffrage.ErrInUse):
		return "in_use"
	case errors.As(err, &refused) && refused.Unauthorized():
		return "unauthorized"
	case errors.As(err, &refused) || errors.As(err, &config):
		return "invalid"
	}
	return "other"
}

// follow prints the events of a leadership.
func (d *driver) follow(id uint64, part *participation, leadership *suffrage.Leadership, at suffrage.Moment) {
	d.mu.Lock()
	part.leadership = leadership
	resigned := part.resigned
	d.mu.Unlock()
	d.print(fields{"event": "leading", "id": id, "token": leadership.Token(), "at_ns": at})
	if resigned {
		go d.resign(part)
	}
	<-leadership.Context().Done()
	d.print(fields{"event": "stop", "id": id, "at_ns": suffrage.Now()})
	select {
	case <-leadership.HandOver():
		d.print(fields{"event": "hand_over_wanted", "id": id})
		<-leadership.Done()
	case <-leadership.Done():
	}
	reason := "lost"
	switch leadership.Err() {
	case suffrage.ErrResigned:
		reason = "resigned"
	case suffrage.ErrExpired:
		reason = "expired"
	}
	d.print(fields{"event": "ended", "id": id, "reason": reason, "at_ns": leadership.Deadline()})
}

func (d *driver) check(id uint64) {
	d.mu.Lock()
	part := d.parts[id]
	var leadership *suffrage.Leadership
	if part != nil {
		leadership = part.leadership
	}
	d.mu.Unlock()
	at := suffrage.Now()
	valid := leadership != nil && leadership.Check() == nil
	d.print(fields{"event": "checked", "id": id, "valid": valid, "at_ns": at})
}

func (d *driver) setValue(c command) {
	d.mu.Lock()
	leadership := d.parts[c.ID].leadership
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := leadership.SetValue(ctx, c.Value); err != nil {
		d.print(fields{"event": "value_refused", "id": c.ID, "message": err.Error()})
		return
	}
	d.print(fields{"event": "value_set", "id": c.ID})
}

func (d *driver) leader(c command) {
	client, err := d.client(c)
	var leader suffrage.Leader
	if err == nil {
		leader, err = client.Election(c.Election, suffrage.Options{}).Leader(context.Background())
	}
	if err != nil {
		d.print(fields{"event": "leader_unknown", "election": c.Election, "message": err.Error()})
		return
	}
	d.print(fields{"event": "leader", "election": c.Election, "node": leader.Node, "token": leader.Token, "value": leader.Value})
}

// resign resigns, or stops to wait.
func (d *driver) resign(part *participation) {
	d.mu.Lock()
	part.resigned = true
	leadership := part.leadership
	d.mu.Unlock()
	if leadership == nil {
		part.cancel()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := leadership.Resign(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "driver: %v\n", err)
	}
}

// exit resigns everything.
func (d *driver) exit() {
	d.mu.Lock()
	parts := make([]*participation, 0, len(d.parts))
	for _, part := range d.parts {
		parts = append(parts, part)
	}
	d.mu.Unlock()
	var all sync.WaitGroup
	for _, part := range parts {
		all.Add(1)
		go func(part *participation) {
			defer all.Done()
			d.resign(part)
			<-part.over
		}(part)
	}
	all.Wait()
}
