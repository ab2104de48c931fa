package product

import "strings"

// Keyspace names every Redis key. Its prefix lets deployments and tests share one Redis without meeting; it holds no
// braces, which would move the hash tag. All keys of one product carry the tag {product} and so share a slot. The key
// table with types and contents is in docs/joint.md, section 2.1.
type Keyspace struct{ Prefix string }

// Keys are the names of one product's keys. The packages waitingroom and stock own them; nobody else uses them.
type Keys struct {
	Settings, Restoring, Clock           string
	Waiting, Away, AwayTill, Active      string
	Who, WhoT, Judged, Intents, Ordering string
	Stock                                string
	Seen, Changes, Tally, Admits, Bans   string
	Slots                                string
}

// Product names the keys of one product.
func (k Keyspace) Product(id ID) Keys {
	tag := k.Prefix + "{" + string(id) + "}:"
	var all strings.Builder // one piece of memory for all names, which every call needs
	all.Grow(20 * (len(tag) + len("restoring")))
	name := func(end string) string {
		from := all.Len()
		all.WriteString(tag)
		all.WriteString(end)
		return all.String()[from:]
	}
	return Keys{
		Settings: name("settings"), Restoring: name("restoring"), Clock: name("clock"),
		Waiting: name("waiting"), Away: name("away"), AwayTill: name("awaytill"), Active: name("active"),
		Who: name("who"), WhoT: name("whot"), Judged: name("judged"), Intents: name("intents"), Ordering: name("ordering"),
		Stock: name("stock"),
		Seen:  name("seen"), Changes: name("changes"), Tally: name("tally"), Admits: name("admits"), Bans: name("bans"),
		Slots: name("slots"),
	}
}

// Catalogue is the set of all product ids with a sentinel member, written whole by the scheduler (owner waitingroom).
func (k Keyspace) Catalogue() string { return k.Prefix + "catalogue" }

// Alive is the key whose remaining life tells when a queue-api last said that people can reach it (owner waitingroom).
func (k Keyspace) Alive() string { return k.Prefix + "api:alive" }

// Status is the hash of one order's status (owner orderstatus), in a slot of its own.
func (k Keyspace) Status(orderID string) string { return k.Prefix + "status:" + orderID }

// Wanted is the sorted set of statuses that somebody asked for and Redis does not know (owner orderstatus).
func (k Keyspace) Wanted() string { return k.Prefix + "status:wanted" }

// Hints is no key but the channel on which the ids of orders whose status changed are published (owner orderstatus).
func (k Keyspace) Hints() string { return k.Prefix + "status:hints" }

// GateHints is no key but the channel on which the ids of products are published whose line may move: a slot became free while the
// capacity held people up, somebody joined an empty line, or units came back (owner waitingroom).
func (k Keyspace) GateHints() string { return k.Prefix + "gate:hints" }

// Lease is the key that expires with one person's pass, in the product's slot (owner waitingroom).
func (k Keyspace) Lease(id ID, u UserHash) string {
	return k.Prefix + "{" + string(id) + "}:lease:" + string(u)
}
