"""Answers of every type as people write them, wrong ones beside them; by hand, from issue 41 and beyond."""

# Each target with other ways to write it. No two targets are equal, so that every other crossing is wrong.
TARGETS: dict[str, list[str]] = {
    "7": ["7.0", r"\frac{14}{2}", "seven", "x = 7"],
    "-7": ["- 7", r"\frac{-14}{2}", "minus seven"],
    r"\frac{3}{8}": ["3/8", "0.375", "37.5%"],
    r"16-4\pi": [r"4(4-\pi)", "16 - 4π", r"-4\pi+16"],
    r"\sqrt{3}-1": [r"\frac{2}{1+\sqrt3}", "√3 - 1"],
    r"2^{100}": ["1267650600228229401496703205376"],
    "1.6\\times 10^{-19}": ["1.6e-19", "1.6 \u00d7 10^-19"],
    r"e^{2}": ["e*e", r"\exp(2)"],
    r"3+4i": ["4i+3", "3 + 4 i"],
    r"11\ \mu\mathrm{T}": ["11 µT", r"1.1\times 10^{-5}\ \mathrm{T}"],
    "12 cm^2": ["12 square centimeters", "1200 mm^2", "12平方厘米"],
    "36 km/h": [r"10\ \mathrm{m/s}", "36千米/小时"],
    "$4.50": ["4.5 dollars", "450 cents"],
    "(2x+1)^2": ["4x^2+4x+1", "(1+2x)(1+2x)"],
    r"\frac{a+b}{c}": ["(a+b)/c", r"\frac{a}{c}+\frac{b}{c}"],
    r"\sin 2t": [r"2\sin t\cos t", "sin(2t)"],
    r"\frac{1}{2}mv^2": ["0.5mv^2", r"\frac{mv^2}{2}"],
    r"I(0)e^{-t/\tau}": [r"\frac{I(0)}{e^{t/\tau}}", r"e^{-\frac{t}{\tau}} I(0)"],
    r"\frac{dy}{dx}+3x": ["3x+dy/dx", r"\frac{\mathrm{d}y}{\mathrm{d}x} + 3x"],
    "a_{n+1}-a_n": ["-a_n+a_{n+1}", "a_{1+n}-a_n"],
    "n!": ["n(n-1)!"],
    r"\lfloor x \rfloor + 1": [r"1+\lfloor x\rfloor"],
    "[2,5)": [r"2 \le x < 5", r"x \in [2, 5)", r"\{x \mid 2 \le x < 5\}", "5 > x >= 2"],
    "(2,5]": ["2 < x <= 5", r"x\in(2,5]"],
    r"(-\infty,-2]\cup[-1,\infty)": [r"x \le -2 \text{ or } x \ge -1", "x ≥ -1 or x ≤ -2", r"x\geq-1\text{或}x\leq-2"],
    r"[\sqrt{2},\infty)": [r"m \ge \sqrt2", r"x\geq\sqrt{2}"],
    r"\mathbb{R}\setminus\{4\}": [r"x \ne 4", r"(-\infty,4)\cup(4,\infty)"],
    r"(-\infty,\infty)": [r"\mathbb{R}", "all real numbers", r"x\in\mathbb{R}"],
    r"\{1,2,9\}": [r"\{9,1,2\}", "1, 2, 9", "x = 1, x = 2 or x = 9", r"x\in\{1,2,9\}"],
    r"\pm 6": ["6, -6", r"x=6 \text{ or } x=-6", r"\{-6,6\}", "6或-6"],
    r"\emptyset": [r"\{\}", r"\varnothing", r"x\in\emptyset", r"y\in\varnothing", r"x\in\{\}"],
    "(1,4)": [r"\left(1,\frac{8}{2}\right)", "(x,y)=(1,4)", r"\langle 1,4\rangle"],
    "(4,1)": [r"(x,y) = (4, 1)"],
    "(1,4,0)": ["(x,y,z)=(1,4,0)", "x=1, y=4, z=0"],
    "a=3, b=8": ["b=8, a=3", "(a,b)=(3,8)"],
    r"A=\begin{pmatrix}1&2\\3&4\end{pmatrix}": [
        r"\begin{bmatrix}1&2\\3&4\end{bmatrix}",
        "[[1,2],[3,4]]",
        r"\left[\begin{array}{cc}1&2\\3&4\end{array}\right]",
    ],
    r"\begin{pmatrix}1&3\\2&4\end{pmatrix}": [r"\begin{pmatrix}1&2\\3&4\end{pmatrix}^T"],
    r"\begin{pmatrix}1\\2\end{pmatrix}": ["[[1],[2]]"],
    "2x+3y=6": ["y=2-\\frac{2}{3}x", "6-2x=3y", "4x+6y-12=0"],
    "2x+3y=7": ["-2x-3y+7=0"],
    "x^2+y^2=25": ["y^2=25-x^2", r"\frac{x^2}{25}+\frac{y^2}{25}=1"],
    "y=x^2-1": ["x^2-1=y", "y=(x-1)(x+1)"],
    r"m\frac{dv}{dt}+bv=f": [r"bv+m\frac{dv}{dt}=f", r"f-bv=m\frac{\mathrm{d}v}{\mathrm{d}t}"],
    "y'+2y=0": ["y'=-2y", "2y'+4y=0", r"\frac{dy}{dx}+2y=0"],
    "y''+4y=0": [r"\frac{d^2y}{dx^2}+4y=0", "4y=-y''"],
    "2x+3y<6": ["6>2x+3y", "-2x-3y>-6"],
    r"2x+3y\le 6": [r"4x+6y\leq 12"],
    "0<a<b": ["0<a \\text{ and } a<b", "b>a>0"],
    "f(x)=x+1": ["f(t)=t+1", "f(x)=1+x"],
    "g(x)=x+1": ["g(s)=s+1"],
    "f(x,y)=x-2y": ["f(u,v)=u-2v"],
    r"f(x)=\begin{cases}x & x>0\\ -x & x\le 0\end{cases}": [r"f(x)=\begin{cases}-x & x\leq 0\\ x & x>0\end{cases}"],
    "(C)": ["C", "C.", "Option C", r"\text{C}"],
    "D. the red cup": ["(D) the red cup"],
    "3-9": ["3 to 9", "from 3 to 9"],
    "3:45 pm": ["15:45", "3:45 p.m."],
    "2024-05-03": ["May 3, 2024"],
    "isosceles": [r"\text{isosceles}", "Isosceles"],
    "H_2SO_4": ["H2SO4", r"\ce{H2SO4}"],
    "等腰三角形": [r"\text{等腰三角形}"],
    r"\sum_{k=1}^{n} b_k": [r"\sum_{j=1}^{n} b_j"],
    r"1=2": ["1 = 2"],
    r"e<\pi": [r"e < \pi"],
    r"x\equiv 3\pmod 7": [r"x \equiv 3 \pmod{7}"],
}  # fmt: skip

# Strings that game a comparison by truth values, empty sets, lost parts or names. None is a way to write a target.
GAMES = r"""
1=2|2<1|1>2|0=1|1=1|0=0|2<3|1\le 1|\pi=\pi|e<3|x=x|y=y|x=x+1|x<x|x\le x|x\ne x|x\in\emptyset|x\in\{\}|y\in\varnothing
\{\emptyset\}|True|False|true|\top|\bot|\text{True}|None|nan|NaN|zoo|oo|\tilde\infty|\infty|-\infty|0|1|-1|00|0.0|i|-i|e|\pi
a|q|w|f|f(x)|f(0)|g(0)|x|y|xy|()|[]|(0)|(0,0)|[0,0]|(0,0,0)|[0,1]|\{0\}|\{x\}|\{0,1\}|x=0|y=0|f=0|A=0|x=1|x>0|x<0
x\ge 0|x\ne 0|x^2\ge 0|x^2<0||x|\ge 0||x|<0|x^2=-1|\frac{0}{0}|\frac{1}{0}|1/0|0^0|\ln 0|\infty-\infty|0\cdot\infty
\begin{pmatrix}0&0\\0&0\end{pmatrix}|\begin{pmatrix}\end{pmatrix}|\begin{pmatrix}0\end{pmatrix}|I|O|\det A|A|A=A|A=B
\frac{dy}{dx}|y'|y'=0|\frac{d}{dx}0|\frac{dy}{dx}=0|dy/dx=dy/dx|\int 0 dx|\sum_{k=1}^{0} k|\lim_{x\to 0} x
f(x)=f(x)|f(x)=x|f(x)=0|f=f|no solution|undefined|none|all|any|any number|everything|the answer|I don't know|???|...|\ldots
\text{}|\boxed{}|$$|\therefore|=|<|\in|\cup|\emptyset\cup\emptyset|\mathbb{C}|\mathbb{Z}|\mathbb{Q}|\mathbb{N}|x\in\mathbb{Z}
A, B, C, D|A or B or C or D|A|B|ABCD|not C|(A) or (C)|yes|no|red|0-0|0:00|0 cm|0 m|0%|100%|1 m|\$1|$0|1 or 2|\pm 1
"""  # noqa: E501

# Wrong answers of one step each, a target before each bar.
WRONG = r"""
A=\begin{pmatrix}1&2\\3&4\end{pmatrix}|A=\begin{pmatrix}1&2\\3&5\end{pmatrix}
A=\begin{pmatrix}1&2\\3&4\end{pmatrix}|A=\begin{pmatrix}1&3\\2&4\end{pmatrix}
A=\begin{pmatrix}1&2\\3&4\end{pmatrix}|B=\begin{pmatrix}1&2\\3&4\end{pmatrix}
S=\{1,2\}|S=\{1,3\}
S=\{1,2\}|T=\{1,2\}
S=\{1,2\}|x\in\emptyset
P=(1,2)|1=2
P=(1,2)|P=(2,1)
(1,2)|2, 1
a=3, b=8|a=8, b=3
a=3, b=8|8, 3
(x,y)=(1,4)|(x,y)=(4,1)
(x,y)=(1,4)|y=1, x=4
e<\pi|2<3
e<\pi|\pi<e
m\frac{dv}{dt}+bv=f|bv=f
m\frac{dv}{dt}+bv=f|m\frac{dv}{dt}-bv=f
m\frac{dv}{dt}+bv=f|m\frac{d^2v}{dt^2}+bv=f
m\frac{dv}{dt}+bv=f|m\frac{dv}{dx}+bv=f
m\frac{dv}{dt}+bv=f|m\frac{dv}{dt}+bv
y'+2y=0|y'-2y=0
y'+2y=0|2y=0
y'+2y=0|y''+2y=0
y'+2y=0|y+2y'=0
y'+2y=0|z'+2z=0
I(0)e^{-t/RC}|0
I(0)e^{-t/RC}|I(1)e^{-t/RC}
I(0)e^{-t/RC}|V(0)e^{-t/RC}
I(0)e^{-t/RC}|I(0)e^{t/RC}
f'(x)|f(x)
f'(0)|0
\frac{d}{dx}f(x)|0
\frac{\partial u}{\partial x}|\frac{\partial u}{\partial t}
5|The answer is .5
.5|The answer is 5
1|the answer is $a+1$
1|The answer is $i+1$
5|So the answer is A, 5.
(B)|So the answer is A, B.
2|1=2
5|5=5
0|0=0
x|x=x
2|2t-2
2t-2|2
3|5m-3
7s-1|7
x^2+2t|x^2+2
1|xy=1
6|ab = 6
5|2x=10
5|x+1=6
\sqrt{a^2b^2}|ab
\sqrt{x^2}|x
|xy||xy
\lfloor x\rfloor|\lceil x\rceil-1
\lfloor x\rfloor|x
x_{ij}|x_{ji}
a_{n+1}|a_n+1
a_{n+1}|a_{n-1}
f(x)=x+1|g(x)=x+1
f(x)=x+1|f(x)=t+1
f(x)=x+1|f(t)=x+1
f(x)=x+a|f(a)=a+x
f(x,y)=x-2y|f(y,x)=x-2y
f(x)=x+1|x+2
\int_0^1 x dx|0
\int_0^1 x dx|\frac{1}{3}
\int_0^1 f(x) dx|\int_0^1 g(x) dx
\int_0^1 f(x) dx|0
\sum_{k=1}^{n} a_k|\sum_{k=0}^{n} a_k
\sum_{k=1}^{n} a_k|\sum_{k=1}^{n} a_n
\lim_{x\to a} f(x)|f(x)
x^2=4|x=2
\sin x=0|x=0
ab=0|a=0
x(x-1)=0|x=1
\frac{x^2-1}{x-1}=0|x^2-1=0
x^2+y^2=25|x^2-y^2=25
x^2+y^2=25|x+y=5
2x+3y=6|3x+2y=6
2x+3y<6|2x+3y>6
2x+3y<6|2x+3y\le 6
2x+3y<6|2x+3y=6
2x+3y<6|2x+3z<6
2x+3y<6|-2x-3y<-6
0<a<b|0<b<a
0<a<b|0\le a<b
[2,5)|[2,5]
[2,5)|(2,5)
[2,5)|[2,6)
[2,5)|2<x<5
[2,5)|x\ge 2
[2,5)|[-2,5)
(-\infty,-2]\cup[-1,\infty)|(-\infty,-2]
(-\infty,-2]\cup[-1,\infty)|x \le -2 \text{ and } x \ge -1
(-\infty,-2]\cup[-1,\infty)|[-2,-1]
(-\infty,-2]\cup[-1,\infty)|(-\infty,-2)\cup(-1,\infty)
m\ge\sqrt2|m>\sqrt2
m\ge\sqrt2|n\ge\sqrt2
m\ge\sqrt2|m\ge 2
m\ge\sqrt2|m\le\sqrt2
x\ne 4|x=4
x\ne 4|(-\infty,4)\cup(5,\infty)
\mathbb{R}|\mathbb{R}\setminus\{0\}
\{1,2,9\}|\{1,2\}
\{1,2,9\}|(1,2,9)
\{1,2,9\}|[1,9]
\pm 6|6
11\ \mu\mathrm{T}|11\ \mathrm{mT}
11\ \mu\mathrm{T}|11\ \mu\mathrm{A}
62 \mathrm{m\,s^{-2}}|62 \mathrm{ms^{-2}}
5米|5千米
3千克|3克
12平方厘米|12厘米
16-4\pi|16+4\pi
16-4\pi|-4\pi
16-4\pi|16 to 4π
\begin{pmatrix}1\\2\end{pmatrix}|\begin{pmatrix}1&2\end{pmatrix}
\begin{vmatrix}1&2\\3&4\end{vmatrix}|\begin{pmatrix}1&2\\3&4\end{pmatrix}
\begin{vmatrix}1&2\\3&4\end{vmatrix}|2
[-2,2]|x^2\le 4
\emptyset|\{\emptyset\}
\mathbb{R}|x^2\ge 0
x\equiv 3\pmod 7|3
x\equiv 3\pmod 7|x=3
x\equiv 3\pmod 7|x\equiv 4\pmod 7
1-10^{-45}|1
\sqrt{10^{100}+1}|10^{50}
\sqrt{2}+10^{-45}|\sqrt{2}
5|\boxed{5}+1
A\cup B|A, B
A and C|(A) or (C)
A, C|A or C
A\setminus B|A
A|x\in A
f(5)=2|\{x=2\}
f(2)=5|f(5)=2
f(2)=5|f(3)=5
y'=y|y
\ln|x||\ln x
\ln|x-1||\ln(1-x)
\sqrt{|x|}|\sqrt{x}
|x||(\sqrt{x})^2
|a-b||(\sqrt{a-b})^2
|x||e^{\ln x}
\ln|x^2-1||\ln(x^2-1)
(x^2)^{1/4}|\sqrt{x}
y=\ln|x||y=\ln(-x)
2y=\ln|x||y=\frac{1}{2}\ln x
|x||\arccos(\cos x)
\nabla\cdot\mathbf{E}=\rho|\nabla\cdot\mathbf{B}=\rho
\nabla\times\vec{H}=\vec{J}|\nabla\times\vec{E}=\vec{J}
E(X)=3|E(Y)=3
P(A)=\frac{1}{3}|P(B)=\frac{1}{3}
f(a)=5|f(b)=5
\text{CO}|\mathrm{Co}
\ce{NO}|\ce{No}
\ce{HF}|Hf
\text{CO}_2|\mathrm{Co_2}
\ce{CS2}|\ce{Cs2}
\mathrm{CoCl_2}|\mathrm{COCl_2}
3,4|3.4
3,4|\frac{17}{5}
0,5|50%
x=1, y=2|x=1 \text{ or } y=2
x>0, y>0|x>0 \text{ or } y>0
a=3或b=4|a=3且b=4
z=3+4i|\bar z=3+4i
3+4i|\bar z=3+4i
0|\{0\}
5|5 \pm 0
5|5 fails
5|we discard x=5
5|a common mistake is 5
5|the naive answer is 5
5|\boxed{5}\text{ is wrong}
5|\boxed{5}\ (\text{rejected})
5|\boxed{5}. Wait, it should be 8.
5|#5
\left|\begin{matrix}2&1\\1&1\end{matrix}\right||\begin{pmatrix}2&1\\1&1\end{pmatrix}
\begin{pmatrix}a&b\\c&d\end{pmatrix}|\lvert\begin{array}{cc}a&b\\c&d\end{array}\rvert
0.000001|0.0000011
0.0000025|0.000003
\frac{1}{400000}|0.000003
12.000000|12.0000004
x=2k\pi, k\in\mathbb{Z}|x=k\pi, k\in\mathbb{Z}
x=2k\pi, k\in\mathbb{Z}|x=2k\pi
P(2,-3)|Q(2,-3)
(2,-3)|P(-3,2)
\begin{pmatrix}1\\2\end{pmatrix}|(2,1)
\begin{pmatrix}1&2\end{pmatrix}|(1,2)
AC|A, C, D
AC|A or C
5 m/s|5\frac{s}{m}
5 units|5 square units
72|She sold 48+24 = 71 clips.
72|We know that x + 24 = 72
72|She thought 48+24 = 72
9|面积不为9
9|约为9
9|错误答案为9
\binom{10}{3}|C_{10}^{4}
(-\infty,0)\cup(0,\infty)|all real numbers except 1
5|the upper bound is 5
5|most people get 5
5|\boxed{5}. Let me recheck: the sum is 6.
2\mathrm{CO}|2\mathrm{Co}
3 mol CO|3 mol Co
5|cross out x=5
5|my initial answer was 5
5|\boxed{5}. No: it is 8.
5|\boxed{5}. This is incorrect.
\frac{20000009}{10000000}|2.000000
x=k\pi, k\in\mathbb{Z}|x=k\pi+1, k\in\mathbb{Z}
2\ln|x||2\ln x
1,25|\frac{5}{4}
9|小于等于9
9|估计为9
9|上限为9
9|也许是9
(1,2)|x=1 \text{ or } x=2
(1,2)|x=1, x=2
(1,2)|1 or 2
Vitamin A|Vitamin
p\land q|p\lor q
\vec{a}\times\vec{b}|\vec{a}\cdot\vec{b}
\nabla\times F|\nabla\cdot F
\{x\in\mathbb{Z} \mid x>0\}|(0,\infty)
E|Answer: A and E
\frac{d}{dx}(xy)|y
5!|5!+1
10^{60}|10^{60}+1
\frac{1}{2004!}|0
"""

# Right answers in forms that say more than the value, or that a target seldom has.
RIGHT = r"""
16-4\pi|So the area equals **16 - 4π** square units.
72|She sold 48+24 = 72 clips.
$18|She makes $18 every day.
5 m/s|v = 5\,\frac{\text{m}}{\text{s}}
5|x is equal to 5
(2,-3)|The vertex is at $(2,-3)$.
(2,-3)|P(2,-3)
\begin{pmatrix}1\\-2\end{pmatrix}|\langle 1,-2\rangle
\binom{10}{3}|{10 \choose 3}
\binom{10}{3}|C_{10}^{3}
\binom{10}{3}|\frac{10!}{3!\,7!}
1\pm\sqrt{5}|1\mp\sqrt{5}
AC|A, C
AC|A and C
B|故选:B
B|答案选B
5|所以一共有5个。
12元|共花了12元
30平方厘米|面积为30平方厘米
(2,-3)|顶点坐标为(2,-3)
3:45|3{:}45
0.5|0{,}5
\emptyset|the empty set
(-\infty,0)\cup(0,\infty)|all real numbers except 0
x=2k\pi, k\in\mathbb{Z}|x=2n\pi\ (n\in\mathbb{Z})
\sqrt{ab}|\sqrt{a}\sqrt{b}
\sqrt[3]{x^2}|x^{2/3}
\left|\begin{matrix}2&1\\1&1\end{matrix}\right||1
3,4|x = 3 or 4
"""


def lines(text: str) -> list[str]:
    return [line for line in text.strip().splitlines() if line]
