// Package leaderelection has the shape of k8s.io/client-go/tools/leaderelection, so that a program changes its import and
// its Lock and keeps its callbacks.
//
// Two differences make it safer. Run waits until OnStartedLeading has returned before it releases the lease, for as long
// as the lease lasts. The context of OnStartedLeading is cancelled before the lease ends, not when a renewal fails.
package leaderelection

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	suffrage "github.com/suffrage-rs/suffrage/clients/go"
)

// releaseTimeout is how long Run waits until the node knows that the lease is released.
const releaseTimeout = 5 * time.Second

// LeaderCallbacks are the callbacks of a LeaderElector.
type LeaderCallbacks struct {
	// OnStartedLeading is called in a goroutine of its own when this program leads. Its context is cancelled when it must
	// stop. FromContext returns the leadership of the context, with the fencing token.
	OnStartedLeading func(context.Context)
	// OnStoppedLeading is called when Run ends, also if this program has never led, as in client-go. It is called after
	// OnStartedLeading has returned, or after the lease has ended.
	OnStoppedLeading func()
	// OnNewLeader is called when another leader is known. The identity is the Identity of this program, or otherwise
	// "NODE/TOKEN". It may be nil.
	OnNewLeader func(identity string)
}

// LeaderElectionConfig is the configuration of a LeaderElector.
type LeaderElectionConfig struct {
	// Lock is the client and the name of the election.
	Lock Lock
	// LeaseDuration is the length of a lease.
	LeaseDuration time.Duration
	// RenewDeadline is how long the leader tries to renew before it stops. LeaseDuration minus RenewDeadline is the time
	// that the work has to stop. Default: nine tenths of LeaseDuration. It must be more than half of LeaseDuration.
	RenewDeadline time.Duration
	// RetryPeriod is the pause between two looks whether an earlier leadership of the same client has ended. It does not
	// set the time of renewals: the client renews after a third of the lease. Default: a tenth of LeaseDuration.
	RetryPeriod time.Duration
	// ReleaseOnCancel releases the lease when Run ends after OnStartedLeading has returned. Otherwise the lease ends at its
	// deadline. A lease on which OnStartedLeading still relies is never released.
	ReleaseOnCancel bool
	// Callbacks are the callbacks.
	Callbacks LeaderCallbacks
	// Name names the elector in errors.
	Name string
}

// Lock is the election that decides.
type Lock struct {
	// Client is the client.
	Client *suffrage.Client
	// Election is the name of the election.
	Election string
	// Identity is what OnNewLeader is told if this program leads, here and in other programs: it is the value of the leader.
	Identity string
}

// LeaderElector leads an election once.
type LeaderElector struct {
	config   LeaderElectionConfig
	election *suffrage.Election

	mu         sync.Mutex
	leadership *suffrage.Leadership
	reported   string
}

// NewLeaderElector checks the configuration.
func NewLeaderElector(config LeaderElectionConfig) (*LeaderElector, error) {
	if config.RenewDeadline == 0 {
		config.RenewDeadline = config.LeaseDuration * 9 / 10
	}
	if config.RetryPeriod <= 0 {
		config.RetryPeriod = config.LeaseDuration / 10
	}
	switch {
	case config.Lock.Client == nil:
		return nil, errors.New("leaderelection: Lock.Client must not be nil")
	case config.Lock.Election == "":
		return nil, errors.New("leaderelection: Lock.Election must not be empty")
	case config.LeaseDuration < time.Millisecond:
		return nil, errors.New("leaderelection: LeaseDuration must be at least 1ms")
	case config.RenewDeadline >= config.LeaseDuration || config.RenewDeadline <= config.LeaseDuration/2:
		return nil, fmt.Errorf("leaderelection: RenewDeadline must be between half of LeaseDuration (%v) and all of it", config.LeaseDuration)
	case config.Callbacks.OnStartedLeading == nil:
		return nil, errors.New("leaderelection: OnStartedLeading must not be nil")
	case config.Callbacks.OnStoppedLeading == nil:
		return nil, errors.New("leaderelection: OnStoppedLeading must not be nil")
	}
	options := suffrage.Options{TTL: config.LeaseDuration, StopMargin: config.LeaseDuration - config.RenewDeadline, Value: config.Lock.Identity}
	return &LeaderElector{config: config, election: config.Lock.Client.Election(config.Lock.Election, options)}, nil
}

// RunOrDie runs an elector until it has led and leads no more, or until ctx is done. It panics if the configuration is not
// valid, or if a node refuses the client for good.
func RunOrDie(ctx context.Context, config LeaderElectionConfig) {
	elector, err := NewLeaderElector(config)
	if err != nil {
		panic(err)
	}
	elector.Run(ctx)
}

// Run campaigns, leads, and returns when this program leads no more or ctx is done. As in client-go, a program that wants
// to lead again calls it again, or exits.
func (le *LeaderElector) Run(ctx context.Context) {
	defer le.config.Callbacks.OnStoppedLeading()
	if le.config.Callbacks.OnNewLeader != nil {
		observing, stop := context.WithCancel(ctx)
		var done sync.WaitGroup
		done.Add(1)
		go func() {
			defer done.Done()
			_ = le.election.Observe(observing, le.observed)
		}()
		defer done.Wait()
		defer stop()
	}
	leadership, err := le.election.Lead(ctx)
	for errors.Is(err, suffrage.ErrInUse) && ctx.Err() == nil {
		// A lease of an earlier Run that was not released has not ended yet.
		select {
		case <-time.After(le.config.RetryPeriod):
			leadership, err = le.election.Lead(ctx)
		case <-ctx.Done():
		}
	}
	if err != nil {
		if ctx.Err() == nil {
			panic(fmt.Errorf("leaderelection %s: %w", le.config.Name, err))
		}
		return
	}
	le.mu.Lock()
	le.leadership = leadership
	le.mu.Unlock()
	le.lead(leadership)
}

// lead works until the leadership stops, and then until the work has returned or the lease has ended.
func (le *LeaderElector) lead(leadership *suffrage.Leadership) {
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		work := context.WithValue(leadership.Context(), leadershipKey{}, leadership)
		le.config.Callbacks.OnStartedLeading(work)
	}()
	if le.config.Callbacks.OnNewLeader != nil {
		le.report(le.own(leadership))
	}
	<-leadership.Context().Done()
	select {
	case <-returned:
		if le.config.ReleaseOnCancel || wantsHandOver(leadership) {
			ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
			defer cancel()
			// If the node does not hear of it, the lease ends at its deadline.
			_ = leadership.Resign(ctx)
		}
	case <-leadership.Done():
	}
}

func wantsHandOver(leadership *suffrage.Leadership) bool {
	select {
	case <-leadership.HandOver():
		return true
	default:
		return false
	}
}

// IsLeader tells whether this program leads at this moment.
func (le *LeaderElector) IsLeader() bool {
	le.mu.Lock()
	defer le.mu.Unlock()
	return le.leadership != nil && le.leadership.Check() == nil
}

// GetLeader is the identity that OnNewLeader was last told.
func (le *LeaderElector) GetLeader() string {
	le.mu.Lock()
	defer le.mu.Unlock()
	return le.reported
}

type leadershipKey struct{}

// FromContext returns the leadership of a context of OnStartedLeading, or nil.
func FromContext(ctx context.Context) *suffrage.Leadership {
	leadership, _ := ctx.Value(leadershipKey{}).(*suffrage.Leadership)
	return leadership
}

// own is the identity of this program when it leads.
func (le *LeaderElector) own(leadership *suffrage.Leadership) string {
	if le.config.Lock.Identity != "" {
		return le.config.Lock.Identity
	}
	return fmt.Sprintf("token %d", leadership.Token())
}

func (le *LeaderElector) observed(leader suffrage.Leader) bool {
	le.mu.Lock()
	leadership := le.leadership
	le.mu.Unlock()
	switch {
	case leader.Token == 0:
		// Nobody leads, or nobody is known to.
	case leadership != nil && leader.Token < leadership.Token():
		// Old news: this program has led since.
	case leadership != nil && leader.Token == leadership.Token():
		le.report(le.own(leadership))
	case leader.Value != "":
		le.report(leader.Value)
	default:
		le.report(fmt.Sprintf("%d/%d", leader.Node, leader.Token))
	}
	return true
}

// report calls OnNewLeader, one call at a time, if the leader is new.
func (le *LeaderElector) report(identity string) {
	le.mu.Lock()
	changed := le.reported != identity
	le.reported = identity
	le.mu.Unlock()
	if changed {
		le.config.Callbacks.OnNewLeader(identity)
	}
}
