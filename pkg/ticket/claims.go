package ticket

import (
	"encoding/json"
	"strconv"
	"strings"

	"hanjul/pkg/product"
)

// claims are what a ticket says, as its text carries it.
type claims struct {
	KeyID   string           `json:"k"`
	Product product.ID       `json:"p"`
	User    product.UserHash `json:"u"`
	Place   product.Place    `json:"n"`
	Issued  int64            `json:"i"`
	Start   int64            `json:"s,omitempty"`
	Promise int64            `json:"w,omitempty"`
}

// readClaims reads claims. Every poll shows a ticket, so the form that Sign writes is read without reflection; any other JSON is read
// as such, and says the same in either way.
func readClaims(text string) (claims, error) {
	if c, ok := readOwn(text); ok {
		return c, nil
	}
	var c claims
	err := json.Unmarshal([]byte(text), &c)
	return c, err
}

// readOwn reads claims as Sign writes them; false for everything else.
func readOwn(text string) (c claims, ok bool) {
	rest := cursor{text, true}
	c.KeyID = rest.text(`{"k":"`)
	c.Product = product.ID(rest.text(`,"p":"`))
	c.User = product.UserHash(rest.text(`,"u":"`))
	c.Place = product.Place(rest.number(`,"n":`))
	c.Issued = rest.number(`,"i":`)
	if strings.HasPrefix(rest.left, `,"s":`) {
		c.Start = rest.number(`,"s":`)
	}
	if strings.HasPrefix(rest.left, `,"w":`) {
		c.Promise = rest.number(`,"w":`)
	}
	return c, rest.ok && rest.left == "}"
}

// cursor reads from the left; after a fault it reads nothing more.
type cursor struct {
	left string
	ok   bool
}

func (c *cursor) skip(before string) {
	left, found := strings.CutPrefix(c.left, before)
	c.left, c.ok = left, c.ok && found
}

// text is what stands between quotes and needs none of JSON's escapes.
func (c *cursor) text(before string) string {
	c.skip(before)
	for i := 0; c.ok && i < len(c.left); i++ {
		switch b := c.left[i]; {
		case b == '"':
			text := c.left[:i]
			c.left = c.left[i+1:]
			return text
		case b < ' ' || b > '~' || b == '\\':
			c.ok = false
		}
	}
	c.ok = false
	return ""
}

// number is a whole number, written as JSON wants it.
func (c *cursor) number(before string) int64 {
	c.skip(before)
	end := 0
	for end < len(c.left) && (c.left[end] >= '0' && c.left[end] <= '9' || end == 0 && c.left[end] == '-') {
		end++
	}
	n, err := strconv.ParseInt(c.left[:end], 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != c.left[:end] {
		c.ok = false
	}
	c.left = c.left[end:]
	return n
}
