package user

import "cmp"

// Unknown is the user of an object whose user is not known. It is never a guess.
const Unknown = "-"

// Stamp is what an object says of its user.
type Stamp struct {
	User string // the API server's name of the one who created the object, or that a speaker said; "" is none
	// Controller is the UID of the object whose user this object has: the controller that it
	// named when that controller's program created it. "" is none, and User says all.
	Controller string
}

// chainLength is how many objects a user is followed over: a pod of an InferenceService has
// five above it.
const chainLength = 8

// Of returns the user of an object with stamp s. An object that a known controller has created
// has the user of the object that it was created for; of returns the stamp of the object with
// a UID, and reports false if there is no such object, or it cannot be read. The user is Unknown
// then.
func Of(s Stamp, of func(uid string) (Stamp, bool)) string {
	for range chainLength {
		if s.Controller == "" {
			return cmp.Or(s.User, Unknown)
		}
		next, found := of(s.Controller)
		if !found {
			return Unknown
		}
		s = next
	}
	return Unknown
}
