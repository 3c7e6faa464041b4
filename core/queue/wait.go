package queue

import (
	"slices"
	"strings"
)

// Wait is what a pod without a node waits for. It decides whether a new node would
// help, which autoscalers read from the pod's condition.
type Wait uint8

// The waits. Only Room and Unknown are cured by a new node.
const (
	// Unknown is that something refused it of which nothing is known: a new node may help.
	Unknown Wait = iota
	// Room is that no node has free what it asks for.
	Room
	// Gang is that pods of its gang are missing, that the size of the gang is not
	// known, or that the gang is being placed.
	Gang
	// Turn is that there is room for it, and a pod that asks for the same comes first.
	Turn
	// Preemption is that a node is chosen for it, where other pods are ending.
	Preemption
	// Retry is that it is tried again at once: nothing is decided yet.
	Retry
	// Volume is a volume claim that is missing, unbound, or used by another pod.
	Volume
	// Claim is a resource claim, or its device class, that is missing or used.
	Claim
	// Invalid is that its request cannot be understood, or contradicts itself.
	Invalid
	// NoSuchNode is that no node has what it asks for, free or held, and no
	// declared pool has such nodes.
	NoSuchNode
	// Quota is that its queue has not enough quota left for it.
	Quota
	waits
)

// codes are the names of the waits that no new node cures, as conditions have them.
var codes = [waits]string{
	Gang: "WaitingForGang", Turn: "WaitingForTurn", Preemption: "WaitingForPreemption", Retry: "WaitingForRetry",
	Volume: "WaitingForVolume", Claim: "WaitingForClaim", Invalid: "InvalidRequest", NoSuchNode: "NoSuchNode",
	Quota: "WaitingForQuota",
}

// NodeHelps reports whether a new node may end the wait.
func (w Wait) NodeHelps() bool { return w == Unknown || w == Room }

// InLine reports whether a pod that waits so would take devices that become free.
func (w Wait) InLine() bool { return w == Unknown || w == Room || w == Turn || w == Preemption }

// Code is the wait in one word, as programs read it; "" where a new node may help.
func (w Wait) Code() string { return codes[w] }

// Mark adds the code of the wait to a sentence, in brackets at its end.
func (w Wait) Mark(sentence string) string {
	if w.NodeHelps() {
		return sentence
	}
	return strings.TrimSpace(sentence + " [" + w.Code() + "]")
}

// Marked takes a message apart that Mark has made. Of another it returns the whole
// message, and Unknown.
func Marked(message string) (sentence string, w Wait) {
	sentence, code, found := cutLast(message, "[")
	i := slices.Index(codes[:], strings.TrimSuffix(code, "]"))
	if !found || i < 1 || codes[i] == "" || !strings.HasSuffix(code, "]") {
		return message, Unknown
	}
	return strings.TrimSpace(sentence), Wait(i)
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// Refused is what is known of a pod that was tried and got no node.
type Refused struct {
	Noted     Wait     // what the plugin that refused it says itself; Unknown is nothing
	Nominated bool     // a node is chosen for it, where room is made or expected
	By        string   // the plugin of kube-scheduler that refused it before any node was looked at; "" is none
	Reasons   []string // what plugins said against nodes
	// Offered is that some node, or a new node of a declared pool, has as many
	// devices as it asks for; Declared that pools are declared.
	Offered, Declared bool
}

// before are the plugins of kube-scheduler that refuse a pod whatever nodes there
// are, and what it waits for then.
var before = map[string]Wait{
	"VolumeBinding": Volume, "VolumeZone": Volume, "VolumeRestrictions": Volume, "NodeVolumeLimits": Volume,
	"DynamicResources": Claim, "NodeAffinity": Invalid, "NodeResourcesFit": Invalid,
}

// everywhere are parts of what kube-scheduler's plugins say against a node, which
// hold for every other node as well.
var everywhere = []struct {
	text string
	is   Wait
}{
	{"ReadWriteOncePod access mode already in-use", Volume},
	{"bound to non-existent pv(s)", Volume},
	{"persistentvolumeclaim \"", Volume},
	{"device class ", Claim},
}

// Wait decides what the pod waits for.
func (r *Refused) Wait() Wait {
	switch {
	case r.Noted != Unknown && r.Noted != Room:
		return r.Noted
	case r.Nominated:
		return Preemption
	case before[r.By] != Unknown:
		return before[r.By]
	}
	for _, said := range r.Reasons {
		for _, e := range everywhere {
			if strings.Contains(said, e.text) {
				return e.is
			}
		}
	}
	if r.Declared && !r.Offered {
		return NoSuchNode
	}
	return r.Noted
}
