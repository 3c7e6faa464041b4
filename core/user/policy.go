package user

import (
	"cmp"
	"slices"
)

// Policy says whose word counts. Names are the API server's, whole.
type Policy struct {
	// Speakers may name another user: a JupyterHub, a web app, a robot.
	Speakers []string
	// Controllers create objects for the object that these name as their controller.
	Controllers []string
	// Carriers copy what a Deployment says to its ReplicaSets, its user with it.
	Carriers []string
}

// Write is one write of an object to the API server.
type Write struct {
	By     string // the API server's user
	Update bool   // else the object is created
	// Before and After are what the object says of its user; Before is zero if it is created.
	Before, After Stamp
	Controller    string // UID of the controller that it names now; "" is none
	ReplicaSet    bool
	// Said is the user that programs which do not know Berth name in their own way; "" is none.
	Said string
}

// Stamp returns what the object says after the write: who created it, and nothing that
// others have put there. The words of speakers stay. On an object that is there already, what
// was removed comes back, and what a program has changed becomes as it was: many controllers
// write back whole objects, or copy annotations from one to another. A change by a person stays,
// and Refuses says so.
func (p *Policy) Stamp(w *Write) Stamp {
	switch {
	case p.carries(w):
		return p.carry(w)
	case slices.Contains(p.Speakers, w.By) && w.Update:
		return p.keep(w)
	case slices.Contains(p.Speakers, w.By):
		return Stamp{User: cmp.Or(w.After.User, w.Said, w.By)}
	case w.Update && IsProgram(w.By):
		return w.Before
	case w.Update:
		return Stamp{cmp.Or(w.After.User, w.Before.User), cmp.Or(w.After.Controller, w.Before.Controller)}
	case w.Controller != "" && slices.Contains(p.Controllers, w.By):
		return Stamp{w.By, w.Controller}
	}
	return Stamp{User: w.By}
}

// carry is what a ReplicaSet says: what its Deployment says, which is copied to it. If that was created for another object, such as an
// InferenceService, the copy would name an object that is not the ReplicaSet's own controller, and lead nowhere: it names the Deployment instead.
func (p *Policy) carry(w *Write) Stamp {
	s := p.keep(w)
	if w.After != w.Before && w.After.Controller != "" && w.Controller != "" {
		s = Stamp{cmp.Or(w.After.User, w.Before.User), w.Controller}
	}
	return s
}

// keep is the user that w says, else the one of before; the controller of before stays beside
// the user of before alone.
func (p *Policy) keep(w *Write) Stamp {
	if name := cmp.Or(w.After.User, w.Before.User); name != w.Before.User {
		return Stamp{User: name}
	}
	return w.Before
}

// Refuses reports whether a write must not be done: it names a user that is not the one who
// creates the object, or changes the user that the object names. It judges what Stamp has left, and, where
// nothing stamps objects, what was sent: what it lets pass is true, and no stamp is Unknown.
func (p *Policy) Refuses(w *Write) bool {
	free := p.carries(w) || slices.Contains(p.Speakers, w.By)
	switch {
	case p.carries(w) && w.After.Controller != "" && w.After.Controller == w.Controller:
		return false
	case w.Update:
		if w.After.User != w.Before.User {
			return !free || w.After.Controller != "" // beside a controller the new name would not count
		}
		return w.After.Controller != w.Before.Controller
	case free:
		return w.After.Controller != ""
	case w.Controller != "" && slices.Contains(p.Controllers, w.By):
		return w.After != Stamp{} && w.After != Stamp{w.By, w.Controller}
	}
	return w.After.Controller != "" || w.After.User != "" && w.After.User != w.By
}

// carries reports whether a write is that of a ReplicaSet by the program that keeps it as its
// Deployment says: what it says of its user is what the Deployment says.
func (p *Policy) carries(w *Write) bool { return w.ReplicaSet && slices.Contains(p.Carriers, w.By) }
