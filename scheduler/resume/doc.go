// Package resume resumes suspended Jobs and training jobs in their turn: it follows them, asks package quota for
// their pods, which do not exist yet, and kube/explain whether nodes have room for them. While there is
// no Queue in the cluster it reads none of them.
package resume
